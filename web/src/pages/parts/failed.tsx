import { ApiError } from '../../api'
import { told } from '../../i18n/told'
import { saying } from '../../ui'

/** What was asked for and could not be done, in the server's words, with the way out. */
export function Failed({ error }: { error: Error }) {
  const fix = error instanceof ApiError ? error.fix : ''
  return <div class="trouble" role="alert"><strong>{saying(error)}</strong>{fix && <span class="fix">{told(fix)}</span>}</div>
}
