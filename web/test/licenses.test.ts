import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'

const at = (path: string) => readFileSync(new URL(`../${path}`, import.meta.url), 'utf8')
const words = (text: string) => text.split(/\s+/).join(' ').trim()

test('the built panel carries the licence of everything that is bundled', () => {
  const { dependencies } = JSON.parse(at('package.json')) as { dependencies: Record<string, string> }
  const shipped = words(at('public/licenses.txt'))
  for (const name of Object.keys(dependencies)) expect(shipped).toContain(words(at(`node_modules/${name}/LICENSE`)))
})
