import { expect, test, vi } from 'vitest'
import { address, api, completeDoc, parse, type RunDoc } from './api'

test('an address leaves out what is empty, and keeps times to a thousandth', () => {
  expect(address('/x', { from: 1.23456, to: undefined, filter: '', w: 'a b&c' })).toBe('/x?from=1.235&w=a+b%26c')
  expect(address('/x')).toBe('/x')
})

test('a document of a run that has just begun has lists, not null', () => {
  const d = completeDoc({ run: { workloads: null, tags: null }, phases: null, slo: null, workloads: null, marks: null, missing: null } as unknown as RunDoc)
  expect(d).toMatchObject({ run: { workloads: [], tags: {} }, phases: [], slo: [], workloads: [], marks: [], missing: [] })
})

test('what turns the direction of text is written out, however it was escaped', () => {
  const turned = '\u202egnp.exe\u2066'
  expect(parse(JSON.stringify({ name: turned }))).toEqual({ name: '\\u202egnp.exe\\u2066' })
  expect(parse('{"name":"\\u202Egnp\\\\u202e\\\\\\u2069"}')).toEqual({ name: '\\u202Egnp\\u202e\\\\u2069' })
  expect(parse('{"a":"\\\\","b":"\\n\u05d0\u200f"}')).toEqual({ a: '\\', b: '\n\u05d0\u200f' })
})

test('a server that does not answer is said alike, whatever it was asked', async () => {
  vi.stubGlobal('fetch', () => Promise.reject(new TypeError('Failed to fetch')))
  const said = { status: 0, message: 'the server does not answer', fix: 'is plimsoll still running?' }
  await expect(api.start('x')).rejects.toMatchObject(said)
  await expect(api.runs()).rejects.toMatchObject(said)
  vi.unstubAllGlobals()
})
