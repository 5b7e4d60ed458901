/* Open MPI, loaded when it is first needed: the program also runs where there is none, and GPU runs never load it.
 *
 * mpi.h gives the types; mpi.def lists the functions, and the objects behind the handles that mpi.h's macros would
 * link to. libmpi.so.40 is the interface of Open MPI 4 and 5. */
#ifndef AORTA_COMM_MPI_LIBRARY_H
#define AORTA_COMM_MPI_LIBRARY_H

#include "base/status.h"

#include <mpi.h>
#include <stdbool.h>

struct mpi_api {
/* NOLINTBEGIN(bugprone-macro-parentheses): declarations take none */
#define FUNCTION(name) __typeof__(&MPI_##name) name;
#define HANDLE(member, type, symbol) type member;
/* NOLINTEND(bugprone-macro-parentheses) */
#include "comm/mpi.def"
#undef FUNCTION
#undef HANDLE
};

/* Loads the library. AORTA_UNSUPPORTED says why it cannot be. */
AORTA_MUST_USE aorta_status mpi_load(struct mpi_api *api);
/* False when nothing in this process has loaded it. */
bool mpi_loaded(struct mpi_api *api);

#endif
