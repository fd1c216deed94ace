// libstripped.so.1: a function that others can call, and one that only its debug file has a name
// of.
#define NOINLINE __attribute__((noinline, noclone))

static volatile long total;

static NOINLINE long stripped_hidden(long number) {
    total += number;
    return total;
}

__attribute__((visibility("default"))) long stripped_run(long times) {
    long last = 0;
    for (long i = 0; i < times; i++) {
        last += stripped_hidden(i);
    }
    return last;
}

// Where the hidden function is.
__attribute__((visibility("default"))) void *stripped_address(void) {
    return (void *)(unsigned long)&stripped_hidden;
}
