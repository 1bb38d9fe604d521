// Which runs a search finds, and in which order they are listed. It never asks the server.

import type { RunRow } from '../api'

/** The runs in which every word of the search stands somewhere: name, id, model, target, load, workloads, tags, note, verdict, state, problem. Live ones first. */
export function findRuns(runs: readonly RunRow[], search: string): RunRow[] {
  const words = search.toLowerCase().split(/\s+/).filter(w => w !== '')
  const text = (r: RunRow) => [
    r.name, r.id, r.model, r.target, r.load, r.note, r.verdict ?? '', r.state, r.problem?.file ?? '', r.problem?.text ?? '', ...r.workloads, ...Object.entries(r.tags).map(([k, v]) => `${k}=${v}`),
  ].join('\n').toLowerCase()
  const found = runs.filter(r => { const all = text(r); return words.every(w => all.includes(w)) })
  return [...found.filter(r => r.live), ...found.filter(r => !r.live)]
}

/** Tags as they are typed: `gpu=h100 build="v 1"`. */
export function tagText(tags: Record<string, string>): string {
  return Object.entries(tags).map(([k, v]) => `${k}=${/[\s"]|^$/.test(v) ? JSON.stringify(v) : v}`).join(' ')
}

/** Reads typed tags, or null when there is a word that is none. */
export function readTags(text: string): Record<string, string> | null {
  const out: Record<string, string> = {}
  const rest = text.replace(/([^\s=]+)=("(?:[^"\\]|\\.)*"|[^\s"]\S*|)(?=\s|$)/g, (_, k: string, v: string) => {
    try {
      out[k] = v.startsWith('"') ? (JSON.parse(v) as string) : v
    } catch {
      return '?'
    }
    return ''
  })
  return rest.trim() === '' ? out : null
}

/** What must be told to the server so that tags from become tags to; null takes one away. */
export function tagChange(from: Record<string, string>, to: Record<string, string>): Record<string, string | null> {
  const out: Record<string, string | null> = {}
  for (const k of Object.keys(from)) if (!Object.hasOwn(to, k)) out[k] = null
  for (const [k, v] of Object.entries(to)) if (from[k] !== v) out[k] = v
  return out
}

/** What a run was loaded with: of several workloads a part for each, which is a sentence of its own. */
export function loadParts(load: string, workloads: readonly string[]): string[] {
  const parts: string[] = []
  if (!load.startsWith(`${workloads[0]} `)) return [load]
  let rest = load
  for (const name of workloads.slice(1)) {
    const at = rest.indexOf(`, ${name} `)
    if (at < 0) continue
    parts.push(rest.slice(0, at))
    rest = rest.slice(at + 2)
  }
  return [...parts, rest]
}
