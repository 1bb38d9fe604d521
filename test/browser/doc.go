// Package browser looks at the panel with a real browser, Debian's chromium, as a
// user would: it reads what is on the screen, types, and takes pictures of it. It
// owns the proof that what is shown is what was measured and that nothing is shown
// in a way that it must not; it holds no code that anything imports, and never
// reaches beyond this machine.
package browser
