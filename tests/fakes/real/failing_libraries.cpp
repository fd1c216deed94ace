// failing_libraries TIMES FILE LIBRARY:FUNCTION...: opens NVIDIA's own libraries, waits for FILE,
// calls each function so many times, says how each call ended ("FUNCTION CODE"), stays. The
// functions take a pointer to where a handle goes first, and no driver is there to give one.
#include <dlfcn.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

int main(int count, char **arguments) {
    using Function = int (*)(void *, int, void *);
    const int times = std::atoi(arguments[1]);
    prctl(PR_SET_NAME, "failing_libs");
    std::setvbuf(stdout, nullptr, _IOLBF, 0);
    std::vector<std::pair<std::string, Function>> functions;
    for (int i = 3; i < count; i++) {
        const std::string argument = arguments[i];
        const std::size_t colon = argument.find(':');
        void *const library = dlopen(argument.substr(0, colon).c_str(), RTLD_NOW);
        void *const symbol =
            library == nullptr ? nullptr : dlsym(library, argument.c_str() + colon + 1);
        if (symbol == nullptr) {
            std::fprintf(stderr, "%s\n", dlerror());
            return 1;
        }
        functions.emplace_back(argument.substr(colon + 1), reinterpret_cast<Function>(symbol));
    }
    std::puts("ready");
    while (access(arguments[2], F_OK) != 0) {
        usleep(1000);
    }
    for (int i = 0; i < times; i++) {
        for (const auto &[name, function] : functions) {
            void *handle = nullptr;
            std::printf("%s %d\n", name.c_str(), function(&handle, 1, nullptr));
        }
    }
    std::puts("holding");
    for (;;) {
        pause();
    }
}
