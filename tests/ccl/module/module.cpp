// module.cpp: a module that unload.cpp loads and gives back, with a copy of all that is in <heddle/ccl.hpp>.
#include <heddle/ccl.hpp>

// A store that has come and gone: the process's list of stores still has an entry that this module has made.
extern "C" bool module_used_store() {
    auto kvs = heddle::ccl::create_main_kvs();
    kvs->set("key", {'x'});
    return kvs->get("key").size() == 1;
}
