// Command accuracy holds the twin against a table of published measurements:
//
//	go run ./test/accuracy FILE.csv
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"

	"plimsoll/internal/twin/accuracy"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: go run ./test/accuracy FILE.csv")
		os.Exit(2)
	}
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "accuracy:", err)
		os.Exit(1)
	}
}

func run(name string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	return accuracy.Run(ctx, f, os.Stdout)
}
