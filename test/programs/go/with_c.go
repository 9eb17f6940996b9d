package main

// #include <stdlib.h>
// static int twice(int number) { return 2 * number; }
import "C"
import "fmt"

func main() { fmt.Println("twice 21:", C.twice(21)) }
