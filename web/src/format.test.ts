import { expect, test } from 'vitest'
import ties from '../testdata/ties.json'
import { brief, count, digits, duration, elapsed, figure, plain, share, unknown } from './format'

test.each([
  [0, '0'], [1, '1.00'], [12.34, '12.3'], [123.4, '123'], [999.4, '999'], [999.6, '1000'], [0.1234, '0.123'], [0.00123, '0.00123'],
  [9.996, '10.0'], [99.96, '100'], [-12.34, '-12.3'], [1.234e-9, '1.23e-9'],
])('digits(%d)', (v, want) => expect(digits(v)).toBe(want))

// The report package rounds the same file: a figure reads alike on paper and on the screen.
test.each(ties)('digits($value) as the report writes it', ({ value, text }) => {
  expect(digits(value)).toBe(text.replaceAll(',', ''))
  expect(digits(-value)).toBe('-' + text.replaceAll(',', ''))
})

test.each([
  [null, unknown], [undefined, unknown], [NaN, unknown], [Infinity, unknown], [0, '0\u2009ms'], [0.0124, '12.4\u2009µs'], [0.9994, '999\u2009µs'], [0.9996, '1.00\u2009ms'], [12.44, '12.4\u2009ms'],
  [999.4, '999\u2009ms'], [999.6, '1.00\u2009s'], [1234, '1.23\u2009s'], [83_240, '83.2\u2009s'], [600_000, '10.0\u2009min'], [7_200_000, '2.00\u2009h'],
])('duration(%d)', (v, want) => expect(plain(duration(v))).toBe(want))

test.each([
  [7, '', '7'], [9999, '', '9999'], [12_345, '', '12.3\u2009k'], [1.5, 'tokens', '1.50\u2009tokens'], [999_600, '', '1.00\u2009M'], [null, '', unknown],
])('count(%d, %s)', (v, unit, want) => expect(plain(count(v, unit))).toBe(want))

test.each([[0, '0\u2009%'], [0.1234, '12.3\u2009%'], [1, '100\u2009%'], [0.00001, '<0.01\u2009%'], [null, unknown]])('share(%d)', (v, want) => expect(plain(share(v))).toBe(want))

test.each([
  [0.0124, 's', false, '12.4\u2009ms'], [12.4, 'ms', false, '12.4\u2009ms'], [0.5, '1', false, '50.0\u2009%'], [1832, 'tokens', true, '1.83\u2009k/s'], [8.59e10, 'bytes', false, '85.9\u2009GB'],
  [1.2e9, 'bytes', true, '1.20\u2009GB/s'], [1.2e9, 'bytes/s', false, '1.20\u2009GB/s'], [412.3, 'W', false, '412\u2009W'], [64, 'users', false, '64'], [63.4, 'C', false, '63.4\u2009°C'], [null, 's', false, unknown],
])('figure(%d, %s, %s)', (v, unit, rate, want) => expect(plain(figure(v, unit, rate))).toBe(want))

test.each([
  [7000, false, '0:07'], [725_000, false, '12:05'], [3_723_000, false, '1:02:03'], [7450, true, '0:07.5'], [59_990, true, '1:00.0'], [-1500, true, '−0:01.5'], [59_999, false, '0:59'], [null, false, unknown],
])('elapsed(%d, %s)', (v, tenths, want) => expect(elapsed(v, tenths)).toBe(want))

test.each([[60, '60\u2009ms'], [1500, '1.5\u2009s'], [0, '0\u2009ms'], [100, '100\u2009ms'], [12.34, '12.3\u2009ms']])('brief(%d)', (v, want) => expect(brief(duration(v))).toBe(want))
