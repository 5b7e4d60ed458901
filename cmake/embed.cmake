# cmake -DINPUT=norm.cu -DNAME=aorta_source_norm -DINCLUDE=src -DOUTPUT=norm.c ["-DDEFINES=NAME,NAME=VALUE"] -P embed.cmake
#
# Writes a C file that defines `const struct aorta_gpu_source NAME` with the text of INPUT. Headers included with quotes
# are put in their place, each once. Left out is what runtime compilers do not take: headers included with angle
# brackets, and declarations of the host's functions.
cmake_policy(VERSION 3.22)
file(READ "${INPUT}" text)
string(REPLACE "," ";" defines "${DEFINES}")
foreach(define IN LISTS defines)
  string(REPLACE "=" " " define "${define}")
  string(APPEND prefix "#define ${define}\n")
endforeach()
set(text "${prefix}\n${text}")
set(seen "")
while(text MATCHES "#include \"([^\"]+)\"\n")
  set(line "${CMAKE_MATCH_0}")
  set(header "${CMAKE_MATCH_1}")
  set(body "")
  if(NOT header IN_LIST seen)
    file(READ "${INCLUDE}/${header}" body)
    list(APPEND seen "${header}")
  endif()
  string(FIND "${text}" "${line}" place)
  string(LENGTH "${line}" length)
  math(EXPR after "${place} + ${length}")
  string(SUBSTRING "${text}" 0 ${place} before)
  string(SUBSTRING "${text}" ${after} -1 rest)
  set(text "${before}${body}${rest}")
endwhile()
string(REGEX REPLACE "#include <[^>]+>\n" "" text "${text}")
string(REGEX REPLACE "\n[a-z][a-z_0-9 *]*aorta_[a-z_0-9]+\\([^\n]*\\);[^\n]*" "" text "${text}")

get_filename_component(file "${INPUT}" NAME)
string(REPLACE "\\" "\\\\" text "${text}")
string(REPLACE "\"" "\\\"" text "${text}")
string(REPLACE "\n" "\\n\"\n    \"" text "${text}")
file(WRITE "${OUTPUT}.tmp"
     "/* Made by cmake/embed.cmake from ${file}. */\n#include \"device/gpu.h\"\n\nextern const struct aorta_gpu_source ${NAME};\nconst struct aorta_gpu_source ${NAME} = {\n    \"${file}\",\n    \"${text}\"};\n")
file(RENAME "${OUTPUT}.tmp" "${OUTPUT}")
