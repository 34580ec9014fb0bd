# Writes OUTPUT, the source of a filter, from TEMPLATE and what LIBRARY exports under NAMES, a pattern, but for WITHOUT,
# as NM tells.
execute_process(COMMAND ${NM} -D --defined-only ${LIBRARY} OUTPUT_VARIABLE symbols
                COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCHALL "[Tti] ${NAMES}" symbols "${symbols}")
list(TRANSFORM symbols REPLACE "^. (.*)$" "FUNCTION(\\1)")
if(WITHOUT)
    list(REMOVE_ITEM symbols "FUNCTION(${WITHOUT})") # the filter calls it, in the library
endif()
list(JOIN symbols "\n" FUNCTIONS)
configure_file(${TEMPLATE} ${OUTPUT} @ONLY)
file(TOUCH ${OUTPUT}) # newer than the library, although its functions are the same
