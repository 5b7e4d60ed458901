# cmake -DINPUT=page.html -DNAME=aorta_trace_page -DOUTPUT=page.c -P embed_text.cmake
#
# Writes a C file that defines `const char NAME[]` with the text of INPUT.
cmake_policy(VERSION 3.22)
file(READ "${INPUT}" text)
get_filename_component(file "${INPUT}" NAME)
string(REPLACE "\\" "\\\\" text "${text}")
string(REPLACE "\"" "\\\"" text "${text}")
string(REPLACE "\n" "\\n\"\n    \"" text "${text}")
file(WRITE "${OUTPUT}.tmp"
     "/* Made by cmake/embed_text.cmake from ${file}. */\nextern const char ${NAME}[];\nconst char ${NAME}[] =\n    \"${text}\";\n")
file(RENAME "${OUTPUT}.tmp" "${OUTPUT}")
