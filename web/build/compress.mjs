// Puts a .gz beside every file of the build that gains by it, and holds the budget of script.
import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'

const dist = new URL('../../internal/assets/files/dist/', import.meta.url).pathname
const budget = 150 * 1024

function* files(dir) {
  for (const name of readdirSync(dir)) {
    const path = join(dir, name)
    if (statSync(path).isDirectory()) yield* files(path)
    else yield path
  }
}

let script = 0
let dictionary = 0
for (const path of [...files(dist)]) {
  if (!/\.(js|css|html|svg|json|webmanifest)$/.test(path)) continue
  const raw = readFileSync(path)
  const packed = gzipSync(raw, { level: 9 })
  if (packed.length < raw.length) writeFileSync(path + '.gz', packed)
  // The report is a page of its own, and the dictionary is loaded where Chinese is spoken, after the first paint.
  if (/\/zh-[^/]*\.js$/.test(path)) dictionary += packed.length
  else if (path.endsWith('.js') && !path.endsWith('/report.js')) script += packed.length
  console.log(String(packed.length).padStart(8), path.slice(dist.length))
}
console.log(`${(script / 1024).toFixed(1)} KB of compressed script, of ${budget / 1024}, and ${(dictionary / 1024).toFixed(1)} KB of the Chinese dictionary`)
if (script > budget || dictionary === 0) {
  console.error(dictionary === 0 ? 'the dictionary is no script of its own' : 'the script is over its budget')
  process.exit(1)
}
