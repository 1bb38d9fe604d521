package run

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// tmpSuffix ends the names of files that are not complete. Readers skip them.
const tmpSuffix = ".tmp"

// writeFile makes name hold b, or leaves it as it was: a reader never sees a
// part of it, and after a return without error it survives a power loss.
func writeFile(name string, b []byte) (err error) {
	f, err := os.CreateTemp(filepath.Dir(name), filepath.Base(name)+".*"+tmpSuffix)
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("write %s: %w", name, err)
			_ = f.Close()
			_ = os.Remove(f.Name()) // what matters is the first error
		}
	}()
	if _, err = f.Write(b); err != nil {
		return err
	}
	if err = f.Chmod(0o644); err != nil {
		return err
	}
	return commit(f, name)
}

// maxWhole bounds what is read whole of a run's files, in bytes: many times what the
// longest run has.
const maxWhole = 256 << 20

// readFile reads a file of a run. Anything but a file is refused: a named pipe
// would be waited for without end, and a damaged file may claim to be of any size.
func readFile(name string) ([]byte, error) {
	fi, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if !fi.Mode().IsRegular() {
		return nil, fmt.Errorf("read %s: not a regular file", name)
	}
	if fi.Size() > maxWhole {
		return nil, fmt.Errorf("read %s: it has %d MiB, more than %d", name, fi.Size()>>20, maxWhole>>20)
	}
	return os.ReadFile(name)
}

// commit makes the complete file f durable under name and closes it.
func commit(f *os.File, name string) error {
	if err := f.Sync(); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), name); err != nil {
		return err
	}
	return syncDir(filepath.Dir(name))
}

// syncDir makes renames in dir durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// maxNameBytes bounds what is kept of a user's text in a file name.
const maxNameBytes = 100

// FileName returns text as a name that is safe in any file system: characters
// other than letters, digits, dot, underscore and dash become underscores, dots
// at the ends and what is beyond 100 bytes are cut, and names that Windows keeps
// for devices are altered. When anything changed, the first 8 digits of the
// text's hash keep different texts apart. It is never empty.
func FileName(text string) string {
	name := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '.', r == '_', r == '-':
			return r
		}
		return '_'
	}, text)
	name = strings.Trim(name, ".")
	if len(name) > maxNameBytes {
		name = strings.TrimRight(name[:maxNameBytes], ".")
	}
	base, _, _ := strings.Cut(strings.ToUpper(name), ".")
	switch {
	case base == "CON", base == "PRN", base == "AUX", base == "NUL",
		len(base) == 4 && (strings.HasPrefix(base, "COM") || strings.HasPrefix(base, "LPT")) && base[3] >= '0' && base[3] <= '9':
		name = "_" + name
	case name == "":
		name = "run"
	}
	if name == text {
		return name
	}
	sum := sha256.Sum256([]byte(text))
	return name + "-" + hex.EncodeToString(sum[:4])
}

// makeDir makes a folder in root that did not exist before and returns its
// name: name, or name with a number behind it.
func makeDir(root, name string) (string, error) {
	if err := os.MkdirAll(root, 0o755); err != nil {
		return "", fmt.Errorf("make folder of runs %s: %w", root, err)
	}
	try := name
	for n := 2; ; n++ {
		err := os.Mkdir(filepath.Join(root, try), 0o755)
		if err == nil {
			return try, nil
		}
		if !errors.Is(err, fs.ErrExist) || n > 10_000 {
			return "", fmt.Errorf("make folder of run %s: %w", filepath.Join(root, try), err)
		}
		try = fmt.Sprintf("%s-%d", name, n)
	}
}
