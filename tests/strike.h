/* The call of a fake library that fails: the Nth, and with `lasting` all that follow. For programs that tests cannot
 * call the environment says which: VARIABLE=symbol:nth:code[:lasting], of several ranks only VARIABLE_RANK. A symbol of
 * "*" is any but those that are polled, whose number is chance; code 0 only counts. The failed call is printed. The
 * caller has the lock. */
#ifndef AORTA_TESTS_STRIKE_H
#define AORTA_TESTS_STRIKE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct strike {
    char symbol[64], failed[64];
    int nth, code, lasting, calls, printed;
};

static inline void strike_set(struct strike *strike, const char *symbol, int nth, int code, int lasting) {
    *strike = (struct strike){.nth = nth, .code = code, .lasting = lasting};
    snprintf(strike->symbol, sizeof strike->symbol, "%s", symbol ? symbol : "");
}

static inline void strike_read(struct strike *strike, const char *variable) {
    char only[64], symbol[64];
    int nth, code, lasting = 0;
    snprintf(only, sizeof only, "%s_RANK", variable);
    const char *text = getenv(variable), *wanted = getenv(only), *rank = getenv("RANK");
    if (!text || (wanted && rank && strcmp(wanted, rank) != 0)) return;
    if (sscanf(text, "%63[^:]:%d:%d:%d", symbol, &nth, &code, &lasting) >= 3)
        strike_set(strike, symbol, nth, code, lasting);
    else
        fprintf(stderr, "%s=%s says nothing\n", variable, text);
    strike->printed = 1;
}

static inline int strike_polled(const char *symbol) {
    static const char *const polled[] = {"MPI_Testall", "ncclCommGetAsyncError", "cuEventQuery", "cuStreamQuery"};
    for (size_t i = 0; i < sizeof polled / sizeof *polled; i++)
        if (strcmp(polled[i], symbol) == 0) return 1;
    return 0;
}

/* The code that this call is to return; 0: none. */
static inline int strike_check(struct strike *strike, const char *symbol) {
    if (strcmp(strike->symbol, "*") == 0 ? strike_polled(symbol) : strcmp(strike->symbol, symbol) != 0) return 0;
    strike->calls++;
    if (!strike->nth || strike->calls < strike->nth || (strike->calls > strike->nth && !strike->lasting)) return 0;
    snprintf(strike->failed, sizeof strike->failed, "%s", symbol);
    if (strike->printed && strike->calls == strike->nth) fprintf(stderr, "strike: %s\n", symbol);
    return strike->code;
}

#endif
