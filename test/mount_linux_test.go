package test

import (
	"strings"
	"syscall"
)

// mountTmpfs mounts a small file system in memory; only root may.
func mountTmpfs(dir, options string) error {
	var flags uintptr
	if rest, ok := strings.CutSuffix(options, ",ro"); ok {
		options, flags = rest, syscall.MS_RDONLY
	}
	return syscall.Mount("tmpfs", dir, "tmpfs", flags, options)
}

func unmount(dir string) error { return syscall.Unmount(dir, syscall.MNT_DETACH) }
