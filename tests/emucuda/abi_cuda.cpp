/* abi_cuda.cpp: the facts as cuda.h has them. */
#include <cudaTypedefs.h>

#define SIGNATURE(function, type) facts.emplace_back(#function, typeid(type).name())
#include "abi_facts.h"

facts_t cuda_facts() {
    return collect_facts();
}
