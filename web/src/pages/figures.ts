// The figures of a request by which it is drawn, sorted and filtered.

import type { RequestRow } from '../api'

/** Their names in filters and questions, and the columns that hold them. */
export const figureColumns = {
  ttft: 'ttft_ms', ttfc: 'ttfc_ms', tpot: 'tpot_ms', e2e: 'e2e_ms', ttlt: 'ttlt_ms', retrieval: 'retrieval_ms', send_lag: 'send_lag_ms',
  prompt: 'prompt_tokens', cached: 'cached_tokens', output: 'output_tokens',
} as const satisfies Record<string, keyof RequestRow>
export type FigureName = keyof typeof figureColumns

/** The filter that holds for figures from lo to hi, both in ms or tokens, rounded outwards to what figures are kept to. */
export function termOf(figure: FigureName, lo: number, hi: number): string {
  if (figureColumns[figure].endsWith('_tokens')) return `${figure}>=${Math.max(Math.ceil(lo - 1e-6), 0)} ${figure}<=${Math.floor(hi + 1e-6)}`
  return `${figure}>=${Math.max(Math.floor(lo * 1000), 0)}us ${figure}<=${Math.ceil(hi * 1000)}us`
}

/**
 * A session in short: its number within its workload, or, of a user who has one after the other,
 * user:number. The record's own number has both, and the step, in one; a filter asks for that.
 */
export function sessionOf(r: Pick<RequestRow, 'session' | 'user'>): string {
  const own = r.session % 2 ** 42
  return Math.floor(own / 2 ** 22) === r.user ? `${r.user}:${own % 2 ** 22}` : `${own % 2 ** 36}`
}
