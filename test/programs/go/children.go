package main

import (
	"fmt"
	"os"
	"os/exec"
	"sync"
)

// Eight goroutines start children and read what they print.
func main() {
	if len(os.Args) > 1 {
		fmt.Print("child ", os.Args[1])
		return
	}
	var all sync.WaitGroup
	for i := 0; i < 8; i++ {
		all.Add(1)
		go func(i int) {
			defer all.Done()
			for turn := 0; turn < 5; turn++ {
				text, trouble := exec.Command(os.Args[0], fmt.Sprint(i)).Output()
				if trouble != nil || string(text) != fmt.Sprint("child ", i) {
					panic(fmt.Sprint(trouble, string(text)))
				}
			}
		}(i)
	}
	all.Wait()
	fmt.Println("40 children")
}
