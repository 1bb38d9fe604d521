// Package content makes the text, images and sound of prompts: seeded grammars
// of documents as they are met in law, finance, medicine, research and
// programming, in English and Chinese, and windows of the user's own files. It
// owns what a part says and how long it is; it never decides what is asked of
// whom, sends nothing, reads no clock (but for giving up on a PDF that takes too
// long), and reads no file that it was not given.
package content
