// second.hpp: a program that starts itself a second time, with a store's address as its argument.
#ifndef TESTS_CCL_SECOND_HPP_
#define TESTS_CCL_SECOND_HPP_

#include "support.hpp"

#include <heddle/ccl/processes.hpp>

#include <spawn.h>
#include <sys/wait.h>

extern char **environ;

namespace {

std::string text_of(const ccl::kvs::address_type &address) {
    std::string text;
    for (char c : address) {
        char two[3];
        std::snprintf(two, sizeof(two), "%02x",
                      static_cast<unsigned>(static_cast<unsigned char>(c)));
        text += two;
    }
    return text;
}

ccl::kvs::address_type address_of(const std::string &text) {
    ccl::kvs::address_type address = {};
    for (std::size_t i = 0; i < address.size(); i++) {
        address[i] = static_cast<char>(std::stoi(text.substr(2 * i, 2), nullptr, 16));
    }
    return address;
}

pid_t start_second(char *name, const std::shared_ptr<ccl::kvs> &kvs) {
    std::string address = text_of(kvs->get_address());
    char *arguments[] = {name, address.data(), nullptr};
    pid_t child = -1;
    EXPECT(posix_spawn(&child, "/proc/self/exe", nullptr, nullptr, arguments, environ) == 0);
    return child;
}

bool ends_well(pid_t child) {
    int status = 0;
    return waitpid(child, &status, 0) == child && status == 0;
}

} // namespace

#endif
