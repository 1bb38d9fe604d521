package engine_test

import "syscall"

// ownGroup puts a process into a group of its own and ends it with the test.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

func killGroup(pid int) { syscall.Kill(-pid, syscall.SIGKILL) }
