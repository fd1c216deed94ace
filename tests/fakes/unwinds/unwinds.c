// A library whose functions have C names and unwind the stack, as those of Rust that panic:
// unwinds_call raises an exception through itself, for which its caller has a handler. The
// unwinder must find each return address, so a return probe on unwinds_call ends the program.
#include "unwinds/unwinds.h"

#include <stdio.h>
#include <stdlib.h>
#include <unwind.h>

// What rustc leaves in each file that it makes, in .comment.
__asm__(".ident \"rustc version 1.93.0 (a stand-in)\"");

static void end_of(_Unwind_Reason_Code reason, struct _Unwind_Exception *exception) {
    (void)reason;
    free(exception);
}

__attribute__((noinline)) static void raise_one(void) {
    struct _Unwind_Exception *exception = calloc(1, sizeof(*exception));
    if (exception == NULL) {
        abort();
    }
    exception->exception_cleanup = end_of;
    const _Unwind_Reason_Code code = _Unwind_RaiseException(exception);
    fprintf(stderr, "failed to initiate panic, error %d\n", (int)code);
    abort();
}

long unwinds_call(long value, int panics) {
    if (panics) {
        raise_one();
    }
    return value + 1;
}
