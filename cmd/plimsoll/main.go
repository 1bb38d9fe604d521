// Command plimsoll measures how much load an inference service can carry.
package main

import (
	"os"

	"plimsoll/internal/cli"
)

func main() { os.Exit(cli.Main(cli.Process())) }
