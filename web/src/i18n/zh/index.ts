// The Chinese of what the server says. It is a script of its own, which English never loads.

import type { Dictionary } from '../told'
import { codes } from './codes'
import { texts } from './texts'

export const dictionary: Dictionary = { codes, texts }
