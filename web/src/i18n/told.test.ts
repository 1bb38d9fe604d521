import { expect, test } from 'vitest'
import testdata from '../../testdata/codes.json'
import { Reader } from './told'
import { dictionary } from './zh'

interface Code { code: string; text: string; values: string[] }
const list: { codes: Code[]; texts: Record<string, string[]> } = testdata
const reader = new Reader(dictionary)
const holes = (s: string, form: RegExp) => [...new Set([...s.matchAll(form)].map((m) => m[1]))].sort()

test('every code of the server has Chinese with its values and no others', () => {
  expect(list.codes.length).toBeGreaterThan(50)
  expect(Object.keys(dictionary.codes).sort()).toEqual(list.codes.map((c) => c.code).sort())
  for (const c of list.codes) expect(holes(dictionary.codes[c.code]!, /\{(\w+)\}/g), c.code).toEqual([...c.values].sort())
})

test('no hole is left open, whatever the values are', () => {
  for (const c of list.codes) {
    for (const v of [{ number: 12.345, unit: 'ms' }, { number: 0.5, unit: '1' }, { number: 1234 }, { text: '' }, { text: 'a {b} c' }, {}]) {
      const said = reader.said({ code: c.code, values: Object.fromEntries(c.values.map((n) => [n, v])) })
      expect(said, c.code).not.toBeNull()
      expect(said!.replaceAll('{b}', ''), c.code).not.toMatch(/[{}]|undefined|null/)
    }
    // A value that an older server does not give: English is better than half a sentence.
    if (c.values.length > 0) expect(reader.said({ code: c.code, values: {} }), c.code).toBeNull()
  }
  expect(reader.said({ code: 'of a newer server' })).toBeNull()
  expect(reader.said({})).toBeNull()
})

test('numbers are written as the panel writes them', () => {
  expect(reader.said({ code: 'send_lag', values: { lag: { number: 1234.5, unit: 'ms' } } })).toContain('1.23\u2009s')
  expect(reader.said({ code: 'token_count', values: { share: { number: 0.1234, unit: '1' } } })).toContain('12.3\u2009%')
  expect(reader.said({ code: 'no_success', values: { requests: { number: 12345 } } })).toContain('12.3\u2009k')
})
