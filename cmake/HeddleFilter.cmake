# Writes OUTPUT, the source of libucc.so.1, from TEMPLATE and what LIBRARY exports, as NM tells.
execute_process(COMMAND ${NM} -D --defined-only ${LIBRARY} OUTPUT_VARIABLE symbols
                COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCHALL "[Tti] (ucc|heddle)_[A-Za-z0-9_]+" symbols "${symbols}")
list(TRANSFORM symbols REPLACE "^. (.*)$" "FUNCTION(\\1)")
list(REMOVE_ITEM symbols "FUNCTION(heddle_loaded_as_ucc)") # called by it, in libheddle
list(JOIN symbols "\n" FUNCTIONS)
configure_file(${TEMPLATE} ${OUTPUT} @ONLY)
file(TOUCH ${OUTPUT}) # newer than the library, although its functions are the same
