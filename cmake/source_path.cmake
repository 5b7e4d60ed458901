# Stops where CMake, the linker, a shell or a list of paths cannot take a character of the source's or the build's path.
foreach(path IN ITEMS "${CMAKE_SOURCE_DIR}" "${CMAKE_BINARY_DIR}")
  if(path MATCHES "[]\"#$`,:;<>?*|[\t\n]")
    string(REPLACE "\n" "newline" character "${CMAKE_MATCH_0}")
    string(REPLACE "\t" "tab" character "${character}")
    message(FATAL_ERROR "The build cannot take the character ${character} in a path; rename or move the directory ${path}")
  endif()
endforeach()
