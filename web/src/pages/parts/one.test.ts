import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { setLanguage } from '../../i18n'
import { Lost } from './one'

/** All text in what a component returns that has no parts of its own. */
function textOf(node: unknown): string {
  if (Array.isArray(node)) return node.map(textOf).join(' ')
  if (typeof node === 'object' && node !== null) return textOf((node as { props: { children: unknown } }).props.children)
  return node === null || node === undefined ? '' : String(node)
}

beforeEach(() => { vi.stubGlobal('document', { documentElement: {} }) })
afterEach(() => { setLanguage('en', false); vi.unstubAllGlobals() })

test('a request whose record cannot be read says why', () => {
  const why = 'read part part-000001.parquet: it has 3 rows less than it says'
  expect(textOf(Lost({ one: { lost: why } }))).toContain('The record of this request cannot be read')
  expect(textOf(Lost({ one: { lost: why } }))).toContain(why)
  setLanguage('zh', false)
  expect(textOf(Lost({ one: { lost: why } }))).toContain('无法读取此请求的记录')
  expect(textOf(Lost({ one: { lost: why } }))).toContain('part-000001.parquet')
  expect(Lost({ one: { lost: null } })).toBeNull()
})
