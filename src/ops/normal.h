/* The tail of the normal distribution, the same on CPU and GPU.
 *
 * Φ(−t) for t ≥ 0 is e^(−t²/2)·Q(u) with u = 1 / (1 + 0.21·t), the form of Abramowitz & Stegun 7.1.26 (C. Hastings).
 * Q is of degree 9, fitted for this file to erfcx(t/√2)/2 on 0 ≤ t ≤ 13.5 for least greatest relative error (Lawson's
 * reweighted least squares on Chebyshev nodes): 1.4e-8 exact. Φ(t) = 1 − Φ(−t). */
#ifndef AORTA_OPS_NORMAL_H
#define AORTA_OPS_NORMAL_H

#ifndef AORTA_NORMAL_FUNCTION /* kernels have a word of their own for it */
#define AORTA_NORMAL_FUNCTION static inline
#endif

AORTA_NORMAL_FUNCTION float aorta_normal_tail(float u) {
    float q = -0.07203397899866104f;
    q = q * u + 0.2854534089565277f;
    q = q * u - 0.33418965339660645f;
    q = q * u + 0.3540336787700653f;
    q = q * u - 0.0972457304596901f;
    q = q * u + 0.1263551563024521f;
    q = q * u + 0.06879004091024399f;
    q = q * u + 0.08512941002845764f;
    q = q * u + 0.08370770514011383f;
    return q * u;
}

/* For 16-bit results: u = 1 / (1 + 0.255·t), degree 5, relative error 4.8e-5. */
AORTA_NORMAL_FUNCTION float aorta_normal_tail_short(float u) {
    float q = 0.2044269592f;
    q = q * u - 0.04614025745f;
    q = q * u + 0.1475242105f;
    q = q * u + 0.09177894759f;
    q = q * u + 0.1024337656f;
    return q * u;
}

#endif
