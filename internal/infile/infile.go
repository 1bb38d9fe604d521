// Package infile opens the files that a user names, by one rule: a folder or a socket
// is refused by name, a named pipe may be without a writer for a second, a reader that
// waits is given up when its owner is done, and what is read whole has a bound. It
// never says what a file must hold, and opens nothing for writing.
package infile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
	"syscall"
	"time"
)

// writerLimit is how long a named pipe may be without a writer: the command that fills
// it may have been started at the same time.
const writerLimit = time.Second

// look is how often it is looked whether it has one.
const look = 10 * time.Millisecond

// File is an open file. It is read like any other; only one goroutine reads.
type File struct {
	*os.File
	name string
	// Of what is no regular file: whether it is a pipe that nothing came of yet, and
	// since when.
	waits bool
	since time.Time

	done  <-chan struct{}
	ended chan struct{}
	once  sync.Once
}

// Open opens a file by its path. When done is closed, which may be nil, a reader of a
// pipe or of a device that waits returns context.Canceled. The error says what the path
// is when that cannot be read. The caller closes the file.
func Open(path string, done <-chan struct{}) (*File, error) {
	info, err := os.Stat(path)
	if err != nil {
		if e, ok := errors.AsType[*fs.PathError](err); ok {
			e.Op = "open" // which is what was asked for
		}
		return nil, err
	}
	refused := func(what string) error { return &fs.PathError{Op: "open", Path: path, Err: errors.New(what)} }
	flags := os.O_RDONLY
	switch mode := info.Mode(); {
	case mode.IsDir():
		return nil, refused("it is a folder, want a file")
	case mode&os.ModeSocket != 0:
		return nil, refused("it is a socket, want a file")
	case mode.IsRegular():
	default:
		flags |= syscall.O_NONBLOCK // opened the usual way a pipe without a writer would wait for ever
	}
	f, err := os.OpenFile(path, flags, 0)
	if err != nil {
		return nil, err
	}
	out := &File{File: f, name: path, waits: info.Mode()&os.ModeNamedPipe != 0, since: time.Now(), done: done}
	if done != nil && flags != os.O_RDONLY {
		out.ended = make(chan struct{})
		go func() {
			select {
			case <-done:
				// What cannot be waited for does not wait, and needs no limit.
				_ = f.SetReadDeadline(time.Now())
			case <-out.ended:
			}
		}()
	}
	return out, nil
}

// Read reads; of a pipe that nobody has opened for writing it waits a little for one
// who does.
func (f *File) Read(b []byte) (int, error) {
	for {
		n, err := f.File.Read(b)
		if n > 0 || !f.waits && !errors.Is(err, syscall.EAGAIN) {
			f.waits = false
			if errors.Is(err, os.ErrDeadlineExceeded) {
				err = context.Canceled
			}
			return n, err
		}
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			return 0, context.Canceled
		case errors.Is(err, syscall.EAGAIN): // there is a writer, who has nothing yet
			f.waits = false
		case err != io.EOF:
			return n, err
		case time.Since(f.since) > writerLimit:
			return 0, &fs.PathError{Op: "read", Path: f.name, Err: errors.New("nothing writes to this pipe: start what fills it first, or pipe that into plimsoll and name -")}
		}
		select {
		case <-f.done: // never, when there is none
			return 0, context.Canceled
		case <-time.After(look):
		}
	}
}

// WriteTo hides that of os.File, which would not wait.
func (f *File) WriteTo(w io.Writer) (int64, error) {
	return io.Copy(w, struct{ io.Reader }{f})
}

// Close closes the file.
func (f *File) Close() error {
	if f.ended != nil {
		f.once.Do(func() { close(f.ended) })
	}
	return f.File.Close()
}

// Read returns what a file holds, at most limit bytes: of a longer one, or of a device
// without an end, it is an error.
func Read(path string, limit int64, done <-chan struct{}) ([]byte, error) {
	f, err := Open(path, done)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return All(f, path, limit)
}

// All is Read of what is open already; name is for its error.
func All(r io.Reader, name string, limit int64) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err == nil && int64(len(b)) > limit {
		return nil, &fs.PathError{Op: "read", Path: name, Err: fmt.Errorf("it has more than %d MiB, which is more than is read of such a file", limit>>20)}
	}
	return b, err
}
