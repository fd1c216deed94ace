// The binary runs with glibc 2.34. What GCC's static libraries take from newer ones is here, by
// other means; tests/packaging/imports_test.sh shows that nothing else is newer. Hidden: a library
// that is loaded keeps the C library's own.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/random.h>

#define HIDDEN __attribute__((visibility("hidden")))

struct search {
    uintptr_t address;
    struct dl_find_object *result;
};

static int find_in(struct dl_phdr_info *object, size_t size, void *data) {
    (void)size;
    struct search *const search = data;
    uintptr_t begin = UINTPTR_MAX, end = 0;
    int within = 0;
    void *frames = NULL;
    for (int i = 0; i < object->dlpi_phnum; ++i) {
        const ElfW(Phdr) *const header = &object->dlpi_phdr[i];
        const uintptr_t start = object->dlpi_addr + header->p_vaddr;
        if (header->p_type == PT_LOAD) {
            begin = start < begin ? start : begin;
            end = start + header->p_memsz > end ? start + header->p_memsz : end;
            within |= search->address - start < header->p_memsz;
        } else if (header->p_type == PT_GNU_EH_FRAME) {
            frames = (void *)start;
        }
    }
    if (!within || frames == NULL) {
        return 0;
    }
    *search->result = (struct dl_find_object){
        .dlfo_map_start = (void *)begin, .dlfo_map_end = (void *)end, .dlfo_eh_frame = frames};
    return 1;
}

// glibc 2.35 has it. The unwinder of GCC 12 and later, which exceptions need, asks nothing else.
HIDDEN int _dl_find_object(void *address, struct dl_find_object *result) {
    struct search search = {(uintptr_t)address, result};
    return dl_iterate_phdr(find_in, &search) == 1 ? 0 : -1;
}

// glibc 2.36 has these; libstdc++ and libcrypt take random numbers from them.
HIDDEN void arc4random_buf(void *to, size_t size) {
    unsigned char *next = to;
    while (size > 0) {
        const size_t part = size < 256 ? size : 256;  // the most that getentropy gives
        if (getentropy(next, part) != 0) {
            abort();
        }
        next += part;
        size -= part;
    }
}

HIDDEN uint32_t arc4random(void) {
    uint32_t number;
    arc4random_buf(&number, sizeof(number));
    return number;
}
