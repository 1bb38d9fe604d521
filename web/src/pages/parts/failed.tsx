import { ApiError } from '../../api'

/** What was asked for and could not be done, in the server's words, with the way out. */
export function Failed({ error }: { error: Error }) {
  const fix = error instanceof ApiError ? error.fix : ''
  return <div class="trouble" role="alert"><strong>{error.message}</strong>{fix && <span class="fix">{fix}</span>}</div>
}
