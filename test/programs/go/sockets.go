package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"sync"
)

// Eight goroutines talk to a server by Unix sockets: streams, and datagrams of one pair each.
func main() {
	name := fmt.Sprintf("/tmp/sockets-%d", os.Getpid())
	listener, trouble := net.Listen("unix", name)
	if trouble != nil {
		panic(trouble)
	}
	go func() {
		for {
			connection, trouble := listener.Accept()
			if trouble != nil {
				return
			}
			go func() { io.Copy(connection, connection); connection.Close() }()
		}
	}()
	var all sync.WaitGroup
	for i := 0; i < 8; i++ {
		all.Add(1)
		go func(i int) {
			defer all.Done()
			for turn := 0; turn < 20; turn++ {
				connection, trouble := net.Dial("unix", name)
				if trouble != nil {
					panic(trouble)
				}
				text := make([]byte, 1000*(i+1))
				for at := range text {
					text[at] = byte(i + turn + at)
				}
				go func() { connection.Write(text); connection.(*net.UnixConn).CloseWrite() }()
				back, trouble := io.ReadAll(connection)
				if trouble != nil || string(back) != string(text) {
					panic(fmt.Sprint(trouble, len(back)))
				}
				connection.Close()
			}
		}(i)
	}
	all.Wait()
	listener.Close()
	fmt.Println("160 conversations")
}
