//go:build !linux

package test

import "errors"

func mountTmpfs(dir, options string) error { return errors.New("tmpfs is Linux's") }

func unmount(dir string) error { return nil }
