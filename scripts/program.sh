# Sourced by the scripts in this folder, which set `here` (the folder above) and fail(). Sets `aorta`: AORTA, else the program
# built here, else the one in PATH.
aorta=${AORTA:-}
for candidate in "$here/build/release/aorta" "$here/bin/aorta"; do
    [ -n "$aorta" ] || [ ! -x "$candidate" ] || aorta=$candidate
done
[ -n "$aorta" ] || aorta=$(command -v aorta) || fail "no aorta: run make, or name it with AORTA=…"
