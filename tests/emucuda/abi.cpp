/* abi.cpp: the emulator declares the driver's interface as cuda.h does. Without cuda.h, there is
 * nothing to compare. */
#include "emucuda/calls.h"

#define SIGNATURE(function, type) facts.emplace_back(#function, typeid(decltype(&function)).name())
#include "abi_facts.h"

#include <cstdio>

#ifdef HAVE_CUDA_H
facts_t cuda_facts();

int main() {
    const facts_t ours = collect_facts(), theirs = cuda_facts();
    int differ = ours.size() != theirs.size();
    for (size_t i = 0; i < ours.size() && !differ; i++) {
        if (ours[i] != theirs[i]) {
            std::printf("%s: %s here, %s in cuda.h\n", ours[i].first.c_str(),
                        ours[i].second.c_str(), theirs[i].second.c_str());
            differ = 1;
        }
    }
    std::printf("%zu facts compared\n", ours.size());
    return differ;
}
#else
int main() {
    std::puts("skipped: no cuda.h and cudaTypedefs.h to compare with");
    return 77;
}
#endif
