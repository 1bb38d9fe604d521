package probe

import "math"

// regression is a least-squares fit of a few coefficients.
type regression struct {
	beta []float64
	// covariance is that of beta, from what is left; dof the number of points beyond
	// the coefficients.
	covariance [][]float64
	dof        float64
	// rss is the weighted sum of squares of what is left.
	rss float64
}

// leastSquares fits y by the columns of x, each point weighted by w, which stands
// for one over its standard deviation. It is false where the columns do not tell the
// coefficients apart. The columns are made orthogonal one after another, twice, which
// keeps the digits that the products of long prompts would lose.
func leastSquares(x [][]float64, y, w []float64) (regression, bool) {
	n, k := len(y), len(x)
	if n < k || k == 0 {
		return regression{}, false
	}
	q, r := make([][]float64, k), make([][]float64, k)
	for j := range q {
		q[j], r[j] = make([]float64, n), make([]float64, k)
		norm := 0.0
		for i := range n {
			q[j][i] = x[j][i] * w[i]
			norm += q[j][i] * q[j][i]
		}
		for range 2 {
			for l := range j {
				dot := 0.0
				for i := range n {
					dot += q[l][i] * q[j][i]
				}
				r[l][j] += dot
				for i := range n {
					q[j][i] -= dot * q[l][i]
				}
			}
		}
		left := 0.0
		for i := range n {
			left += q[j][i] * q[j][i]
		}
		if !(left > 1e-20*norm) {
			return regression{}, false
		}
		r[j][j] = math.Sqrt(left)
		for i := range n {
			q[j][i] /= r[j][j]
		}
	}
	out := regression{beta: make([]float64, k), covariance: make([][]float64, k), dof: float64(n - k)}
	rest := make([]float64, n)
	for i := range n {
		rest[i] = y[i] * w[i]
	}
	for j := range k {
		for i := range n {
			out.beta[j] += q[j][i] * rest[i]
		}
		for i := range n {
			rest[i] -= out.beta[j] * q[j][i]
		}
	}
	for _, v := range rest {
		out.rss += v * v
	}
	// Back substitution for the coefficients, and for the inverse of r.
	inverse := make([][]float64, k)
	for j := range inverse {
		inverse[j] = make([]float64, k)
		inverse[j][j] = 1 / r[j][j]
		for i := j - 1; i >= 0; i-- {
			for l := i + 1; l <= j; l++ {
				inverse[i][j] -= r[i][l] * inverse[l][j]
			}
			inverse[i][j] /= r[i][i]
		}
	}
	beta := make([]float64, k)
	for i := range k {
		out.covariance[i] = make([]float64, k)
		for j := range k {
			beta[i] += inverse[i][j] * out.beta[j]
		}
	}
	out.beta = beta
	if out.dof > 0 {
		s2 := out.rss / out.dof
		for i := range k {
			for j := range k {
				for l := range k {
					out.covariance[i][j] += s2 * inverse[i][l] * inverse[j][l]
				}
			}
		}
	}
	return out, true
}

// combine is a sum of the coefficients with its interval by Student.
func (r *regression) combine(by ...float64) estimate {
	e, v := estimate{lo: math.NaN(), hi: math.NaN()}, 0.0
	for i, a := range by {
		e.value += a * r.beta[i]
		for j, b := range by {
			v += a * b * r.covariance[i][j]
		}
	}
	if r.dof >= 1 {
		half := studentT((1+confidence)/2, r.dof) * math.Sqrt(max(v, 0))
		e.lo, e.hi = e.value-half, e.value+half
	}
	return e
}

// quotient is coefficient a over coefficient b with Fieller's interval, which is
// lost where b cannot be told from 0.
func (r *regression) quotient(a, b int) estimate {
	e := estimate{r.beta[a] / r.beta[b], math.NaN(), math.NaN()}
	if r.dof < 1 || r.beta[b] == 0 {
		return e
	}
	t := studentT((1+confidence)/2, r.dof)
	va, vb, vab := t*t*r.covariance[a][a], t*t*r.covariance[b][b], t*t*r.covariance[a][b]
	// The x of (beta a - x beta b)^2 <= t^2 var(beta a - x beta b).
	p, q, s := r.beta[b]*r.beta[b]-vb, r.beta[a]*r.beta[b]-vab, r.beta[a]*r.beta[a]-va
	if d := q*q - p*s; p > 0 && d >= 0 {
		e.lo, e.hi = (q-math.Sqrt(d))/p, (q+math.Sqrt(d))/p
	}
	return e
}

// parabola fits y = a + b x + c x^2, with errors in proportion to y.
func parabola(x, y []float64) (regression, bool) {
	one, square, w := make([]float64, len(x)), make([]float64, len(x)), make([]float64, len(x))
	for i := range x {
		one[i], square[i], w[i] = 1, x[i]*x[i], 1/y[i]
	}
	return leastSquares([][]float64{one, x, square}, y, w)
}

// misfit is the root of the mean relative square of what is left, per degree of
// freedom, of a fit that weighted by 1/y.
func (r *regression) misfit() float64 {
	if r.dof < 1 {
		return 0
	}
	return math.Sqrt(r.rss / r.dof)
}
