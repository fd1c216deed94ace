// Two programs that the stack check must refuse: see bpf/check_stack.sh.
typedef unsigned long long u64;

static void (*const consume)(const void *, u64) = (void *)6;  // any helper that takes a pointer

__attribute__((section("uprobe"), used)) int array_of_56_bytes(void *context) {
    volatile u64 on_stack[7] = {};

    on_stack[(u64)context % 7] = 1;
    consume((const void *)on_stack, sizeof(on_stack));
    return 0;
}

__attribute__((noinline)) int not_inlined(void *context) {
    volatile u64 one = (u64)context;

    return one != 0;
}

__attribute__((section("uprobe/2"), used)) int calls_another(void *context) {
    return not_inlined(context);
}
