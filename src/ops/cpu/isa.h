/* The files of this folder are compiled once for each instruction set; AORTA_ISA is its short name, and the names of
 * what they export end with it: AORTA_ISA_NAME(exp) is aorta_exp_generic, aorta_exp_v3 or aorta_exp_v4. */
#ifndef AORTA_OPS_CPU_ISA_H
#define AORTA_OPS_CPU_ISA_H

#ifndef AORTA_ISA
#define AORTA_ISA generic
#endif
#define AORTA_ISA_PASTE(name, isa) aorta_##name##_##isa
#define AORTA_ISA_EXPAND(name, isa) AORTA_ISA_PASTE(name, isa)
#define AORTA_ISA_NAME(name) AORTA_ISA_EXPAND(name, AORTA_ISA)

#endif
