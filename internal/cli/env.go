// Package cli owns the commands: what a user types, what is printed, and the
// exit code. Everything of the operating system that a command needs comes to it
// in an Env, so that tests run whole commands in one process. It never measures
// anything: conduct does.
package cli

import (
	"context"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"

	"plimsoll/internal/conduct"
	"plimsoll/internal/infile"
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
	// Browse opens a page in the user's browser and does not wait for it; nil where
	// there is none.
	Browse func(url string) error

	// limits are those of the telemetry of a run; tests have others.
	limits conduct.Limits
	// ended is closed at the first interrupt; nil means never.
	ended <-chan struct{}
	// piped is what was read of standard input and of pipes, by name: a command may
	// look at a file before it uses it, and these give what they have once.
	piped sync.Map // of []byte
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
		Browse:     browser(),
	}
}

// browser returns how a page is opened in the user's browser, nil where nobody sees
// one.
func browser() func(url string) error {
	program := "xdg-open"
	switch {
	case runtime.GOOS == "darwin":
		program = "open"
	case os.Getenv("DISPLAY") == "" && os.Getenv("WAYLAND_DISPLAY") == "":
		return nil
	}
	path, err := exec.LookPath(program)
	if err != nil {
		return nil
	}
	return func(url string) error {
		cmd := exec.Command(path, url)
		if err := cmd.Start(); err != nil {
			return err
		}
		return cmd.Process.Release() // it may stay longer than this program
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

// readFile reads a file named by the user; "-" is standard input. What is no
// regular file may keep its reader waiting, and is given up at the first interrupt.
// The caller does not change what it returns.
func (e *Env) readFile(name string) ([]byte, error) {
	path, standard := e.path(name), name == "-" && e.Stdin != nil
	var mode os.FileMode
	if fi, err := os.Stat(path); err == nil {
		mode = fi.Mode()
	}
	if mode.IsRegular() && !standard {
		return infile.Read(path, maxInput, e.ended)
	}
	if data, ok := e.piped.Load(name); ok {
		return data.([]byte), nil
	}
	var data []byte
	var err error
	switch {
	case standard:
		data, err = e.giveUp(func() ([]byte, error) { return infile.All(e.Stdin, "standard input", maxInput) })
	case mode&os.ModeCharDevice != 0:
		// A terminal cannot be left but by who waits for it.
		data, err = e.giveUp(func() ([]byte, error) { return infile.Read(path, maxInput, e.ended) })
	default:
		data, err = infile.Read(path, maxInput, e.ended)
	}
	if err == nil {
		e.piped.Store(name, data)
	}
	return data, err
}

// giveUp returns what read returns, or at the first interrupt that it was cancelled;
// read may go on then until the process ends.
func (e *Env) giveUp(read func() ([]byte, error)) ([]byte, error) {
	type result struct {
		data []byte
		err  error
	}
	done := make(chan result, 1)
	go func() {
		data, err := read()
		done <- result{data, err}
	}()
	select {
	case r := <-done:
		return r.data, r.err
	case <-e.ended:
		return nil, context.Canceled
	}
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
