// Package cli owns the commands: what a user types, what is printed, and the
// exit code. Everything of the operating system that a command needs comes to it
// in an Env, so that tests run whole commands in one process. It never measures
// anything: conduct does.
package cli

import (
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
)

// Env is the world of one invocation. It is used by one Main at a time.
type Env struct {
	// Args are the arguments without the program's name.
	Args []string
	// Program is how the user called the program, for commands to copy; "" is
	// plimsoll.
	Program        string
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// LookupEnv returns an environment variable.
	LookupEnv func(name string) (string, bool)
	// Dir is the directory against which relative paths are taken, "" for the
	// process's own.
	Dir string
	// StdoutTTY and StderrTTY say whether a person watches the stream.
	StdoutTTY, StderrTTY bool
	// Interrupts carries one value each time the user asks to stop (Ctrl-C).
	// Nil means never.
	Interrupts <-chan os.Signal
}

// Process returns the environment of this process and begins to catch SIGINT
// and SIGTERM, and the hang-up of a terminal that is closed unless that is
// ignored (nohup): what was measured is worth as much then.
func Process() *Env {
	ch := make(chan os.Signal, 2)
	signal.Notify(ch, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) {
		signal.Notify(ch, syscall.SIGHUP)
	}
	return &Env{
		Args: os.Args[1:], Program: os.Args[0],
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		LookupEnv:  os.LookupEnv,
		StdoutTTY:  isTerminal(os.Stdout),
		StderrTTY:  isTerminal(os.Stderr),
		Interrupts: ch,
	}
}

func isTerminal(f *os.File) bool {
	fi, err := f.Stat()
	return err == nil && fi.Mode()&os.ModeCharDevice != 0 && os.Getenv("TERM") != "dumb"
}

// path returns name as the process can open it.
func (e *Env) path(name string) string {
	if e.Dir == "" || filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(e.Dir, name)
}

// maxInput bounds what is read of a file that the user names.
const maxInput = 64 << 20

// readFile reads a file named by the user; "-" is standard input.
func (e *Env) readFile(name string) ([]byte, error) {
	if name == "-" && e.Stdin != nil {
		return io.ReadAll(io.LimitReader(e.Stdin, maxInput))
	}
	f, err := os.Open(e.path(name))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxInput))
}

func (e *Env) lookup(name string) (string, bool) {
	if e.LookupEnv == nil {
		return "", false
	}
	return e.LookupEnv(name)
}

// colour says whether standard output may carry colour.
func (e *Env) colour() bool {
	v, _ := e.lookup("NO_COLOR")
	return e.StdoutTTY && v == ""
}
