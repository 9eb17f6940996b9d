package main

import (
	"fmt"
	"io"
	"os"
	"sync"
)

// Eight goroutines send numbers through pipes of their own; the sums come back.
func main() {
	var all sync.WaitGroup
	sums := make([]int, 8)
	for i := range sums {
		all.Add(1)
		go func(i int) {
			defer all.Done()
			for turn := 0; turn < 50; turn++ {
				reader, writer, trouble := os.Pipe()
				if trouble != nil {
					panic(trouble)
				}
				go func() {
					for n := 0; n < 20; n++ {
						if _, trouble := writer.Write([]byte{byte(n + i)}); trouble != nil {
							panic(trouble)
						}
					}
					writer.Close()
				}()
				bytes, trouble := io.ReadAll(reader)
				if trouble != nil || len(bytes) != 20 {
					panic(fmt.Sprint(trouble, len(bytes)))
				}
				for _, b := range bytes {
					sums[i] += int(b)
				}
				reader.Close()
			}
		}(i)
	}
	all.Wait()
	fmt.Println(sums)
}
