// Rules that every file of the panel keeps.
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'

const root = new URL('..', import.meta.url).pathname
const sources = (readdirSync(join(root, 'src'), { recursive: true }) as string[])
  .filter((f) => /\.(tsx?|css)$/.test(f)).map((f) => ({ name: f, text: readFileSync(join(root, 'src', f), 'utf8') }))

test('no text becomes markup or code', () => {
  expect(sources.length).toBeGreaterThan(10)
  const bad = /innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|createContextualFragment|srcdoc/
  expect(sources.filter((s) => bad.test(s.text)).map((s) => s.name)).toEqual([])
})

test('no style attribute: the policy forbids inline styles, and classes or CSSOM do it', () => {
  // Preact sets style objects through CSSOM; a string would become an attribute.
  expect(sources.filter((s) => /style="|style=\{`|style='|setAttribute\('style'/.test(s.text)).map((s) => s.name)).toEqual([])
})

test('nothing comes from elsewhere', () => {
  // The dictionary repeats what the server says of addresses.
  const out = sources.filter((s) => !s.name.startsWith('i18n/zh/') && /https?:\/\/(?!127\.0\.0\.1|localhost|www\.w3\.org)/.test(s.text)).map((s) => s.name)
  expect(out).toEqual([])
})

test('the lock file names no registry', () => {
  const lock = readFileSync(join(root, 'package-lock.json'), 'utf8')
  expect(lock).not.toContain('"resolved"')
  expect(lock).toContain('"integrity"')
})
