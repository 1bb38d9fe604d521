package probe

import "math"

// betaShare is the regularized incomplete beta function I_x(a, b), by the continued
// fraction of Lentz.
func betaShare(x, a, b float64) float64 {
	if x <= 0 {
		return 0
	}
	if x >= 1 {
		return 1
	}
	if x > (a+1)/(a+b+2) {
		return 1 - betaShare(1-x, b, a)
	}
	la, _ := math.Lgamma(a)
	lb, _ := math.Lgamma(b)
	lab, _ := math.Lgamma(a + b)
	front := math.Exp(lab-la-lb+a*math.Log(x)+b*math.Log1p(-x)) / a
	const tiny = 1e-300
	f, c, d := 1.0, 1.0, 0.0
	for i := range 500 {
		m := float64(i / 2)
		num := 1.0
		switch {
		case i == 0:
		case i%2 == 0:
			num = m * (b - m) * x / ((a + 2*m - 1) * (a + 2*m))
		default:
			num = -(a + m) * (a + b + m) * x / ((a + 2*m) * (a + 2*m + 1))
		}
		if d = 1 + num*d; math.Abs(d) < tiny {
			d = tiny
		}
		d = 1 / d
		if c = 1 + num/c; math.Abs(c) < tiny {
			c = tiny
		}
		f *= c * d
		if i > 0 && math.Abs(1-c*d) < 1e-14 {
			break
		}
	}
	return front * (f - 1)
}

// studentT is the quantile p of Student's distribution.
func studentT(p, dof float64) float64 {
	if p < 0.5 {
		return -studentT(1-p, dof)
	}
	return bisect(0, 1e9, func(t float64) bool {
		return 1-betaShare(dof/(dof+t*t), dof/2, 0.5)/2 < p
	})
}

// bisect finds where below turns false between lo and hi.
func bisect(lo, hi float64, below func(float64) bool) float64 {
	for range 200 {
		mid := (lo + hi) / 2
		if mid == lo || mid == hi {
			break
		}
		if below(mid) {
			lo = mid
		} else {
			hi = mid
		}
	}
	return (lo + hi) / 2
}
