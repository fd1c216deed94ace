// Reads a file with the shared libyaml-cpp, which throws where the file is wrong:
//
//   reads_yaml FILE     says "ok", or what is wrong, with exit code 1
//   reads_yaml --hold   reads nothing, says "holding", and keeps the library in use
#include <unistd.h>
#include <yaml-cpp/yaml.h>

#include <cstdio>
#include <cstring>

int main(int count, char **arguments) {
    if (count != 2) {
        return 2;
    }
    if (std::strcmp(arguments[1], "--hold") == 0) {
        std::puts("holding");
        std::fflush(stdout);
        while (true) {
            pause();
        }
    }
    try {
        (void)YAML::LoadFile(arguments[1]);
    } catch (const YAML::Exception &error) {
        std::puts(error.what());
        return 1;
    }
    std::puts("ok");
    return 0;
}
