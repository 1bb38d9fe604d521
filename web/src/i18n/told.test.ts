import { expect, test } from 'vitest'
import testdata from '../../testdata/codes.json'
import { Reader } from './told'
import { dictionary } from './zh'
import { words } from './zh/words'

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

const filled = (form: string, hole: RegExp, values: string[]) => { let i = 0; return form.replace(hole, (_, n?: string) => values[n ? Number(n) - 1 : i++]!) }

test('every text of the server has Chinese, with a place for each of its holes', () => {
  const all = Object.values(list.texts).flat()
  expect(all.length).toBeGreaterThan(900)
  const { texts } = dictionary
  expect(all.filter((s) => !(s in texts))).toEqual([])
  // What the server no longer says is not kept.
  expect(Object.keys(texts).filter((s) => !all.includes(s) && !(s in words))).toEqual([])
  for (const [en, zh] of Object.entries(texts)) {
    const n = en.split('{}').length - 1
    expect(holes(zh, /\{(\d+)\}/g), en).toEqual(Array.from({ length: n }, (_, i) => String(i + 1)).sort())
    expect(zh, en).not.toBe('')
  }
})

test('a text is known again with whatever is in its holes', () => {
  const values = ['7q', '8q', '9q', '10q', '11q', '12q', '13q', '14q', '15q', '16q', '17q']
  for (const [en, zh] of Object.entries(dictionary.texts)) {
    const said = reader.text(filled(en, /\{(\d*)\}/g, values))
    if (!en.includes(' ') && !en.includes('{}')) expect(said, en).toBe(zh)
    else if (said !== filled(zh, /\{(\d+)\}/g, values)) {
      // Another form that says more fits as well: nothing may get lost.
      expect(said, en).not.toBeNull()
      for (const v of values.slice(0, en.split('{}').length - 1)) expect(said, en).toContain(v)
    }
    expect(said, en).not.toMatch(/\{\d+\}|undefined/)
  }
})

test('what was found instead is said after what was wanted', () => {
  expect(reader.text('want a rate above 0 and at most 10 requests a second, got -1')).toBe('速率须大于 0 且不超过每秒 10 个请求，实际为 -1')
  expect(reader.text('users.prompt-tokens: want a number, got "x, got y"')).toBe('users.prompt-tokens：须为一个数，实际为 "x, got y"')
  expect(reader.text('diurnal: want low at most high, and high above 0, got 2 and 1')).toBe('diurnal：low 不得大于 high，且 high 须大于 0，实际为 2 和 1')
  expect(reader.text('stages have lengths of their own (load.stages is at scenario.yaml:2:16): remove it')).toBe('stages 自带时长（load.stages 位于 scenario.yaml:2:16）：请删除此项')
})

test('what is within what is known too, and what others wrote stays', () => {
  expect(reader.text('users.prompt-tokens: uniform: low: want a number of tokens, not "x"')).toBe('users.prompt-tokens：uniform：下限：须为一个数（token），而不是 "x"')
  expect(reader.text('unknown field: want one of url, model')).toBe('未知字段：须为以下之一：url, model')
  expect(reader.text('CUDA out of memory')).toBeNull()
  expect(reader.text('the model "x" does not exist')).toBeNull()
  expect(reader.said({ code: 'live.first_failure.message', values: { error: { text: 'http_status' }, message: { quote: 'want text' } } })).toBe('首次失败：http_status：want text')
})

test('numbers are written as the panel writes them', () => {
  expect(reader.said({ code: 'send_lag', values: { lag: { number: 1234.5, unit: 'ms' }, least: { number: 800, unit: 'ms' }, limit: { number: 5, unit: 'ms' } } })).toContain('1.23\u2009s')
  expect(reader.said({ code: 'token_count', values: { share: { number: 0.1234, unit: '1' } } })).toContain('12.3\u2009%')
  expect(reader.said({ code: 'no_success', values: { requests: { number: 12345 } } })).toContain('12.3\u2009k')
})

test('the load of a workload beside others is said in Chinese', () => {
  expect(reader.text('legal/a 0.200 sessions/s poisson')).toBe('legal/a 0.200 会话/秒 poisson')
  expect(reader.text('b 3 users')).toBe('b 3 个用户')
  expect(reader.text('c 1.00 sessions/s gamma, at most 8 in flight')).toBe('c 1.00 会话/秒 gamma，最多 8 个同时进行')
})
