// The Chinese of what the server says. It is a script of its own, which English never loads.
//
// Texts stand by what they are in English, in which {} is a hole; the nth of them is {n} here.

import type { Dictionary } from '../told'
import { codes } from './codes'
import { fields } from './fields'
import { probe } from './probe'
import { scenario } from './scenario'
import { server } from './server'
import { signals } from './signals'
import { telemetry } from './telemetry'
import { words } from './words'

export const dictionary: Dictionary = { codes, texts: { ...words, ...fields, ...scenario, ...probe, ...signals, ...telemetry, ...server } }
