// The twin designer's form: what stands in the link and in the fields, and what the server is
// asked for it.

import type { TwinAsk } from '../api'

export interface Design {
  model: string
  gpu: string
  tp: string
  pp: string
  dp: string
  ep: string
  replicas: string
  router: string
  precision: string
  /** '' as the linear layers are published, or fp8. */
  kv: string
  engine: string
  workload: string
  prompt: string
  output: string
  by: 'users' | 'rates'
  loads: string
}

export const usual: Design = {
  model: 'llama-3.1-8b', gpu: 'h100', tp: '1', pp: '1', dp: '1', ep: '1', replicas: '1', router: 'round-robin', precision: '', kv: '', engine: 'vllm', workload: '', prompt: '1024', output: '256', by: 'users', loads: '1, 2, 4, 8, 16, 32, 64, 128, 256',
}

/** A field that cannot be read, by its name. */
export type Wrong = Partial<Record<keyof Design, 'whole' | 'loads' | 'many' | 'length'>>

const whole = (s: string): number | null => (/^[1-9]\d{0,5}$/.test(s.trim()) ? Number(s.trim()) : null)

/** Levels of load as they are typed: numbers and steps from..to with doublings, `1..256` being 1, 2, 4 up to 256. */
export function readLoads(text: string, by: 'users' | 'rates'): number[] | null {
  const out: number[] = []
  for (const word of text.split(/[\s,;]+/).filter(w => w !== '')) {
    const range = /^(\d+(?:\.\d+)?)\.\.(\d+(?:\.\d+)?)$/.exec(word)
    if (range !== null) {
      const [from, to] = [Number(range[1]), Number(range[2])]
      if (!(from > 0) || !(to >= from) || to / from > 2 ** 40) return null
      for (let v = from; v < to; v *= 2) out.push(v)
      out.push(to)
    } else {
      if (!/^\d+(\.\d+)?$/.test(word)) return null
      out.push(Number(word))
    }
  }
  if (out.length === 0 || out.some(v => !(v > 0) || (by === 'users' && !Number.isInteger(v)))) return null
  return [...new Set(out)].sort((a, b) => a - b)
}

/** What to ask the server for a design, or which fields are wrong. */
export function askFor(d: Design): { ask: TwinAsk } | { wrong: Wrong } {
  const wrong: Wrong = {}
  const number = (name: 'tp' | 'pp' | 'dp' | 'ep' | 'replicas'): number => {
    const v = whole(d[name])
    if (v === null) wrong[name] = 'whole'
    return v ?? 1
  }
  const tp = number('tp')
  const pp = number('pp')
  const dp = number('dp')
  const ep = number('ep')
  const replicas = number('replicas')
  const loads = readLoads(d.loads, d.by)
  if (loads === null) wrong.loads = 'loads'
  else if (loads.length > 32) wrong.loads = 'many'
  if (d.workload === '') for (const name of ['prompt', 'output'] as const) if (d[name].trim() === '') wrong[name] = 'length'
  if (Object.keys(wrong).length > 0 || loads === null) return { wrong }
  return {
    ask: {
      model: d.model, gpu: d.gpu, tp, pp, dp, ep, replicas, router: d.router, ...(d.kv === 'fp8' && { kv_fp8: true }), ...(d.engine && { engine: d.engine }), ...(d.precision && { precision: d.precision }),
      ...(d.workload ? { workload: d.workload } : { prompt_tokens: d.prompt.trim(), output_tokens: d.output.trim() }),
      [d.by]: loads,
    },
  }
}

const keys = Object.keys(usual) as (keyof Design)[]

/** The design that stands in a link. */
export function designOf(query: URLSearchParams): Design {
  const d: Design = { ...usual }
  for (const k of keys) {
    const v = query.get(k)
    if (v !== null) (d as unknown as Record<string, string>)[k] = v.slice(0, 400)
  }
  if (d.by !== 'rates') d.by = 'users'
  if (d.kv !== 'fp8') d.kv = ''
  return d
}

/** What of a design must stand in the link: only what is not usual. */
export function linkOf(d: Design): Record<string, string | null> {
  return Object.fromEntries(keys.map(k => [k, d[k] === usual[k] ? null : d[k]]))
}

/** How a device's memory is divided, in bytes, in the order of the bar. */
export interface Part { name: 'weights' | 'activations' | 'other' | 'kv' | 'free'; bytes: number; share: number }

/** The parts of a device with capacity bytes; what the engine leaves alone is free. */
export function memoryParts(m: { usable: number; weights: number; activations: number; other: number; kv: number }, capacity: number): Part[] {
  const whole = Math.max(capacity, m.usable, 1)
  const parts: [Part['name'], number][] = [['weights', m.weights], ['activations', m.activations], ['other', m.other], ['kv', m.kv], ['free', Math.max(whole - m.weights - m.activations - m.other - m.kv, 0)]]
  return parts.map(([name, bytes]) => ({ name, bytes, share: Math.min(Math.max(bytes / whole, 0), 1) }))
}
