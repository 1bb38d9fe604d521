// What the scenario editor knows of YAML: where the caret is, and what may be
// written there by the schema. Whether a scenario is right only the server
// says; nothing here judges it.

/** The parts of a JSON Schema that completion reads. */
export interface Schema {
  type?: string | string[]
  description?: string
  default?: unknown
  enum?: unknown[]
  properties?: Record<string, Schema>
  additionalProperties?: boolean | Schema
  items?: Schema
  anyOf?: Schema[]
  oneOf?: Schema[]
}

/** Where the caret stands. */
export interface Place {
  /** The keys above, outermost first; a list adds nothing of its own. */
  path: string[]
  /** What is being written: a key, or the value of the last key of path. */
  kind: 'key' | 'value' | 'none'
  /** What stands before the caret of it. */
  typed: string
  /** What choosing a completion replaces: offsets in the text. */
  from: number
  to: number
  /** Columns of indentation of the line. */
  indent: number
}

const keyLine = /^(\s*)((?:- )*)([A-Za-z_][\w.-]*)\s*:(?:\s|$)/

/** Finds where the caret stands, by the indentation of the lines above. */
export function placeAt(text: string, caret: number): Place {
  const begin = text.lastIndexOf('\n', caret - 1) + 1
  let end = text.indexOf('\n', caret)
  if (end < 0) end = text.length
  const head = text.slice(begin, caret)
  const line = text.slice(begin, end)
  const indent = /^ */.exec(line)![0].length
  const none: Place = { path: [], kind: 'none', typed: '', from: caret, to: caret, indent }
  if (comment(head)) return none
  const m = /^(\s*)((?:- )*)([A-Za-z_][\w.-]*)\s*:\s+([^]*)$/.exec(head)
  if (m !== null) {
    // The value, or within a flow list or a list by commas its last part.
    const value = m[4]!
    const start = Math.max(value.lastIndexOf(','), value.lastIndexOf('['), value.lastIndexOf(' ')) + 1
    const typed = value.slice(start).replace(/^\s+/, '')
    let to = caret
    while (to < end && !/[\s,\]#]/.test(text[to]!)) to++
    return { path: [...parents(text, begin, m[1]!.length + m[2]!.length), m[3]!], kind: 'value', typed, from: caret - typed.length, to, indent }
  }
  const item = /^(\s*)((?:- )+)([^:]*)$/.exec(head)
  if (item !== null) {
    const typed = item[3]!
    const above = parents(text, begin, item[1]!.length, true)
    return { path: above, kind: 'value', typed, from: caret - typed.length, to: caret, indent }
  }
  const key = /^(\s*)([A-Za-z_][\w.-]*)?$/.exec(head)
  if (key === null) return none
  let to = caret
  while (to < end && /[\w.-]/.test(text[to]!)) to++
  if (text[to] === ':') {
    to++
    if (text[to] === ' ') to++
  }
  const typed = key[2] ?? ''
  return { path: parents(text, begin, key[1]!.length), kind: 'key', typed, from: caret - typed.length, to, indent: key[1]!.length }
}

/** Whether the caret stands in a comment. */
function comment(head: string): boolean {
  let quote = ''
  for (let i = 0; i < head.length; i++) {
    const c = head[i]!
    if (quote !== '') {
      if (c === quote) quote = ''
    } else if ((c === '"' || c === "'") && (i === 0 || /[\s,[:{-]/.test(head[i - 1]!))) quote = c
    else if (c === '#' && (i === 0 || /\s/.test(head[i - 1]!))) return true
  }
  return false
}

/** The keys that the line which begins at begin lies under; list: items may stand at their key's own indentation. */
function parents(text: string, begin: number, indent: number, list = false): string[] {
  const path: string[] = []
  let limit = list ? indent + 1 : indent
  const above = text.slice(0, begin).split('\n')
  for (let i = above.length - 1; i >= 0 && limit > 0; i--) {
    const m = keyLine.exec(above[i]!)
    if (m === null) continue
    const at = m[1]!.length + m[2]!.length
    if (at < limit) {
      path.unshift(m[3]!)
      limit = at
    }
  }
  return path
}

/** Every schema that a value may follow: itself, and the branches of its choices. */
function branches(s: Schema): Schema[] {
  return [s, ...[...(s.anyOf ?? []), ...(s.oneOf ?? [])].flatMap(branches)]
}

/** The schema of the value at a path, or null where the schema does not say. */
export function schemaAt(root: Schema, path: readonly string[]): Schema | null {
  let at: Schema = root
  for (const key of path) {
    let next: Schema | undefined
    for (const b of branches(at).flatMap(b => (b.items === undefined ? [b] : [b, ...branches(b.items)]))) {
      next ??= b.properties !== undefined && Object.hasOwn(b.properties, key) ? b.properties[key] : undefined
    }
    if (next === undefined) return null
    at = next
  }
  return at
}

/** One thing that may be written, and what is known of it. */
export interface Offer { insert: string; label: string; text: string }

const isObject = (s: Schema): boolean => branches(s).some(b => b.properties !== undefined)

/** What may be written at a place. Keys that the mapping has already are not offered. */
export function offers(root: Schema, place: Place, text: string, known: Readonly<Record<string, readonly string[]>> = {}): Offer[] {
  if (place.kind === 'none') return []
  const s = schemaAt(root, place.path)
  if (s === null) return []
  const out: Offer[] = []
  if (place.kind === 'key') {
    const have = new Set(siblings(text, place))
    for (const b of branches(s)) {
      for (const [name, child] of Object.entries(b.properties ?? {})) {
        if (!name.startsWith(place.typed) || have.has(name)) continue
        const insert = isObject(child) ? `${name}:\n${' '.repeat(place.indent + 2)}` : `${name}: `
        out.push({ insert, label: name, text: child.description ?? '' })
      }
    }
    return out
  }
  const add = (v: string, why: string) => {
    if (v !== place.typed && v.toLowerCase().startsWith(place.typed.toLowerCase()) && !out.some(o => o.label === v)) {
      out.push({ insert: v, label: v, text: why })
    }
  }
  for (const b of branches(s).flatMap(b => (b.items === undefined ? [b] : [b, ...branches(b.items)]))) {
    for (const v of b.enum ?? []) add(String(v), '')
    if (b.type === 'boolean') for (const v of ['true', 'false']) add(v, '')
  }
  for (const v of known[place.path.join('.')] ?? []) add(v, '')
  if (s.default !== undefined && s.default !== '' && typeof s.default !== 'object') add(String(s.default), 'default')
  return out
}

/** The keys of the mapping that the place lies in, without the one being written. */
function siblings(text: string, place: Place): string[] {
  const lines = text.split('\n')
  const at = text.slice(0, place.from).split('\n').length - 1
  const keys: string[] = []
  const visit = (from: number, by: 1 | -1) => {
    for (let i = from; i >= 0 && i < lines.length; i += by) {
      const line = lines[i]!
      if (/^\s*(#|$)/.test(line)) continue
      const indent = /^ */.exec(line)![0].length
      if (indent < place.indent) return
      const m = keyLine.exec(line)
      if (m !== null && m[1]!.length + m[2]!.length === place.indent) keys.push(m[3]!)
    }
  }
  visit(at - 1, -1)
  visit(at + 1, 1)
  return keys
}

/** The offset of a line and column, both from 1; a place behind the end is the end. */
export function offsetOf(text: string, line: number, column: number): number {
  let at = 0
  for (let i = 1; i < line; i++) {
    const next = text.indexOf('\n', at)
    if (next < 0) return text.length
    at = next + 1
  }
  const end = text.indexOf('\n', at)
  // Columns count characters, offsets count UTF-16 units.
  const own = [...text.slice(at, end < 0 ? text.length : end)]
  return at + own.slice(0, Math.max(column - 1, 0)).join('').length
}

/** What Enter writes: a new line at the indentation of the caret's own, deeper behind an open key. */
export function newline(text: string, caret: number): string {
  const begin = text.lastIndexOf('\n', caret - 1) + 1
  const head = text.slice(begin, caret)
  const indent = /^ */.exec(head)![0].length
  return '\n' + ' '.repeat(/^[^#]*:\s*$/.test(head) ? indent + 2 : indent)
}
