/* A small library for elf_fuzz to begin with: functions of the names that it asks for, one of them
 * with a jump table. scripts/fuzz.sh compiles it, with symbols and without. */
#include "../fakes/usdt/mark.h"

int one(int x) {
    return x > 3 ? x * 2 : x - 1;
}

int three(int x) {
    switch (x) {
        case 1:
            return one(2);
        case 2:
            return 7;
        case 3:
            return 9;
        case 4:
            return 11;
        case 5:
            return 77;
    }
    return 3;
}

int cudaMalloc(void) {
    MARK(fuzz, begin, 0);
    return 0;
}
