// The filter language of the request explorer: the same words, the same
// meaning and the same errors as the server's own reader of them. Both are
// held to web/testdata/filter.json.

/** The fields of a request that a filter can speak about. */
export interface Filterable {
  n: number
  workload: string
  session: number
  turn: number
  user: number
  step: number
  phase: string
  target: number
  status: string
  error_kind: string
  http_status: number | null
  finish: string
  ttft_ms: number | null
  ttfc_ms: number | null
  tpot_ms: number | null
  e2e_ms: number | null
  ttlt_ms: number | null
  retrieval_ms: number | null
  send_lag_ms: number | null
  prompt_tokens: number | null
  cached_tokens: number | null
  output_tokens: number | null
}

export const statuses = ['ok', 'error', 'cancelled', 'incomplete'] as const
const phases = ['warmup', 'steady', 'drain'] as const
const errorKinds = [
  'http_status', 'auth', 'rate_limited', 'overloaded', 'in_band_error', 'truncated_stream',
  'connection_reset', 'connect_refused', 'connect_timeout', 'dns', 'tls', 'idle_timeout',
  'header_timeout', 'total_timeout', 'decode', 'bad_body', 'redirect', 'client_resource',
] as const

type Op = ':' | '=' | '<' | '<=' | '>' | '>='

type Field =
  | { kind: 'text'; of: (r: Filterable) => string; values: readonly string[] | null }
  | { kind: 'integer' | 'tokens' | 'duration'; of: (r: Filterable) => number | null }

const fields: Record<string, Field> = {
  workload: { kind: 'text', of: r => r.workload, values: null },
  status: { kind: 'text', of: r => r.status, values: statuses },
  error: { kind: 'text', of: r => r.error_kind, values: errorKinds },
  phase: { kind: 'text', of: r => r.phase, values: phases },
  finish: { kind: 'text', of: r => r.finish, values: null },
  ttft: { kind: 'duration', of: r => r.ttft_ms },
  ttfc: { kind: 'duration', of: r => r.ttfc_ms },
  tpot: { kind: 'duration', of: r => r.tpot_ms },
  e2e: { kind: 'duration', of: r => r.e2e_ms },
  ttlt: { kind: 'duration', of: r => r.ttlt_ms },
  retrieval: { kind: 'duration', of: r => r.retrieval_ms },
  send_lag: { kind: 'duration', of: r => r.send_lag_ms },
  prompt: { kind: 'tokens', of: r => r.prompt_tokens },
  cached: { kind: 'tokens', of: r => r.cached_tokens },
  output: { kind: 'tokens', of: r => r.output_tokens },
  session: { kind: 'integer', of: r => r.session },
  turn: { kind: 'integer', of: r => r.turn },
  user: { kind: 'integer', of: r => r.user },
  step: { kind: 'integer', of: r => r.step },
  target: { kind: 'integer', of: r => r.target },
  http: { kind: 'integer', of: r => r.http_status },
  n: { kind: 'integer', of: r => r.n },
}

/** The names of the fields, in the order in which completion offers them. */
const fieldNames = Object.keys(fields)

/** Why a term cannot be read. What the page says of it is in the words of its language. */
export type FilterProblem =
  | { code: 'bare'; word: string }
  | { code: 'field'; field: string; nearest: string }
  | { code: 'operator'; field: string; allowed: string }
  | { code: 'value'; field: string; allowed: string }
  | { code: 'unit'; field: string; value: string }
  | { code: 'duration' | 'tokens' | 'integer' | 'empty'; field: string }
  | { code: 'quote' | 'negation' | 'terms' | 'long' }

/** An error and the place of the term it is in, in characters of the filter. */
export type FilterError = FilterProblem & { at: number; length: number }

interface Term {
  field: Field
  not: boolean
  op: Op
  text: string
  number: number
}

/** What a filter says. With errors it matches nothing. */
export interface Filter {
  terms: Term[]
  errors: FilterError[]
}

const maxTerms = 32
const maxCharacters = 1000

/** Nanoseconds, in which durations are compared: those of requests are whole microseconds. */
const unitNs: Record<string, number> = { us: 1e3, ms: 1e6, s: 1e9, m: 60e9, h: 3600e9 }
const decimal = /^(\d+(?:\.\d*)?|\.\d+)([A-Za-z]*)$/

interface Word {
  text: string
  at: number
  length: number
  /** Offset in UTF-16 units, for completion. */
  from: number
  open: boolean
}

const isBlank = (c: string): boolean => c === ' ' || c === '\t' || c === '\n' || c === '\r'

/** Cuts a filter into words; blanks within double quotes belong to the word. */
function split(filter: string): Word[] {
  const words: Word[] = []
  let word: Word | null = null
  let quoted = false
  let at = 0
  let from = 0
  for (const c of filter) {
    if (isBlank(c) && !quoted) {
      word = null
    } else {
      if (word === null) {
        word = { text: '', at, length: 0, from, open: false }
        words.push(word)
      }
      if (c === '"') quoted = !quoted
      word.text += c
      word.length++
      word.open = quoted
    }
    at++
    from += c.length
  }
  return words
}

const termShape = /^([a-z0-9_]+)(:|<=|>=|=|<|>)([^]*)$/

/** Lower-case letters of ASCII only, as the server does it. */
const fold = (s: string): string => s.replace(/[A-Z]/g, c => c.toLowerCase())

/** Reads a filter. Every error has its place. */
export function parseFilter(filter: string): Filter {
  const result: Filter = { terms: [], errors: [] }
  const words = split(filter)
  const characters = [...filter].length
  if (characters > maxCharacters) {
    result.errors.push({ code: 'long', at: 0, length: characters })
    return result
  }
  words.forEach((word, i) => {
    if (i >= maxTerms) {
      if (i === maxTerms) result.errors.push({ code: 'terms', at: word.at, length: word.length })
      return
    }
    const term = readTerm(word)
    if ('code' in term) result.errors.push({ ...term, at: word.at, length: word.length })
    else result.terms.push(term)
  })
  return result
}

function readTerm(word: Word): Term | FilterProblem {
  if (word.open) return { code: 'quote' }
  const not = word.text.startsWith('-')
  const body = not ? word.text.slice(1) : word.text
  if (body === '' || body.startsWith('-')) return { code: 'negation' }
  const m = termShape.exec(body)
  if (m === null) {
    const name = /^[^:<>=]*/.exec(body)![0]
    if (name !== body && name !== '') return { code: 'field', field: name, nearest: nearest(name) }
    return { code: 'bare', word: body }
  }
  const [, name, op, raw] = m as unknown as [string, string, Op, string]
  const field = Object.hasOwn(fields, name) ? fields[name] : undefined
  if (field === undefined) return { code: 'field', field: name, nearest: nearest(name) }
  const allowed = operators(field)
  if (!allowed.includes(op)) return { code: 'operator', field: name, allowed: allowed.join(' ') }
  const value = unquote(raw)
  if (value === null) return { code: 'quote' }
  if (value === '' && raw === '') return { code: 'empty', field: name }
  const term: Term = { field, not, op, text: '', number: 0 }
  switch (field.kind) {
    case 'text':
      if (field.values !== null && !field.values.includes(value)) {
        return { code: 'value', field: name, allowed: field.values.join(', ') }
      }
      term.text = field.values === null ? fold(value) : value
      return term
    case 'integer':
      term.number = Number(value)
      if (!/^\d+$/.test(value) || !Number.isSafeInteger(term.number)) return { code: 'integer', field: name }
      return term
    case 'tokens': {
      const d = decimal.exec(value)
      const scale = d === null ? undefined : { '': 1, k: 1e3, M: 1e6 }[d[2]!]
      if (d === null || scale === undefined) return { code: 'tokens', field: name }
      term.number = Number((Number(d[1]) * scale).toPrecision(15))
      return term
    }
    case 'duration': {
      const d = decimal.exec(value)
      if (d === null) return { code: 'duration', field: name }
      if (d[2] === '') return { code: 'unit', field: name, value: d[1]! }
      const unit = Object.hasOwn(unitNs, d[2]!) ? unitNs[d[2]!] : undefined
      if (unit === undefined) return { code: 'duration', field: name }
      term.number = Math.round(Number(d[1]) * unit)
      return term
    }
  }
}

function operators(f: Field): Op[] {
  switch (f.kind) {
    case 'text': return [':']
    case 'integer': return [':', '=', '<', '<=', '>', '>=']
    default: return ['=', '<', '<=', '>', '>=']
  }
}

/** The value without its quotes, or null when quotes stand anywhere but around all of it. */
function unquote(s: string): string | null {
  if (!s.includes('"')) return s
  return /^"[^"]*"$/.test(s) ? s.slice(1, -1) : null
}

/** The field whose name is at most two edits away, or nothing. */
function nearest(name: string): string {
  let best = ''
  let least = 3
  for (const candidate of fieldNames) {
    const d = edits(name.toLowerCase(), candidate)
    if (d < least && d < candidate.length) [best, least] = [candidate, d]
  }
  return best
}

function edits(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, j) => j)
  for (let i = 1; i <= a.length; i++) {
    const next = [i]
    for (let j = 1; j <= b.length; j++) {
      next.push(Math.min(row[j]! + 1, next[j - 1]! + 1, row[j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1)))
    }
    row = next
  }
  return row[b.length]!
}

/** Whether a request satisfies every term. An unknown figure satisfies no comparison. */
export function matches(filter: Filter, r: Filterable): boolean {
  return filter.errors.length === 0 && filter.terms.every(t => holds(t, r) !== t.not)
}

function holds(t: Term, r: Filterable): boolean {
  if (t.field.kind === 'text') {
    const v = t.field.of(r)
    return t.field.values === null ? fold(v).includes(t.text) : v === t.text
  }
  const figure = t.field.of(r)
  if (figure === null) return false
  const v = t.field.kind === 'duration' ? Math.round(figure * 1e6) : figure
  switch (t.op) {
    case ':':
    case '=': return v === t.number
    case '<': return v < t.number
    case '<=': return v <= t.number
    case '>': return v > t.number
    case '>=': return v >= t.number
  }
}

/** What may stand at the caret, and the part of the filter that choosing it replaces. */
export interface Completion {
  from: number
  to: number
  items: string[]
}

/** Offers what may be typed at the caret (an offset in UTF-16 units). */
export function completeFilter(filter: string, caret: number, known: { workloads: readonly string[]; finishes: readonly string[] }): Completion {
  const head = filter.slice(0, caret)
  const words = split(head)
  const last = words[words.length - 1]
  const inWord = last !== undefined && last.from + last.text.length === head.length
  const from = inWord ? last.from : caret
  const typed = inWord ? last.text : ''
  // The rest of the word behind the caret goes with what is replaced.
  let to = caret
  while (to < filter.length && !isBlank(filter[to]!)) to++

  const minus = typed.startsWith('-') ? '-' : ''
  const body = typed.slice(minus.length)
  const m = /^([a-z0-9_]+)(:|<=|>=|=|<|>)([^]*)$/.exec(body)
  let items: string[] = []
  if (m === null) {
    items = fieldNames.filter(n => n.startsWith(body)).map(n => minus + n + (fields[n]!.kind === 'text' || fields[n]!.kind === 'integer' ? ':' : '>'))
  } else if (Object.hasOwn(fields, m[1]!)) {
    const field = fields[m[1]!]!
    if (field.kind === 'text' && m[2] === ':') {
      const values = field.values ?? (m[1] === 'workload' ? known.workloads : known.finishes)
      const part = fold(m[3]!.replaceAll('"', ''))
      items = values.filter(v => v !== '' && !v.includes('"') && fold(v).includes(part)).map(v => `${minus}${m[1]}:${/\s/.test(v) ? `"${v}"` : v}`)
    } else if (field.kind === 'duration' && /^(\d+(\.\d*)?|\.\d+)$/.test(m[3]!)) {
      items = ['ms', 's', 'us', 'm'].map(u => typed + u)
    }
  }
  return { from, to, items: items.filter(i => i !== typed).slice(0, 12) }
}

/** Puts a term into a filter, or takes it out when it is there already. */
export function toggleTerm(filter: string, term: string): string {
  const words = split(filter).map(w => w.text)
  const i = words.indexOf(term)
  if (i >= 0) words.splice(i, 1)
  else words.push(term)
  return words.join(' ')
}
