// stripped_caller LIBRARY TIMES: waits for SIGUSR1, has the library's hidden function called so
// many times, says so, and waits to be killed.
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv) {
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGUSR1);
    sigprocmask(SIG_BLOCK, &signals, NULL);
    void *library = argc == 3 ? dlopen(argv[1], RTLD_NOW) : NULL;
    if (library == NULL) {
        fprintf(stderr, "stripped_caller: %s\n", argc == 3 ? dlerror() : "LIBRARY TIMES");
        return 1;
    }
    long (*run)(long) = (long (*)(long))(unsigned long)dlsym(library, "stripped_run");
    int number = 0;
    sigwait(&signals, &number);
    run(atol(argv[2]));
    puts("done");
    fflush(stdout);
    for (;;) {
        pause();
    }
}
