//! The first screen: each line of the session in `README.md` is typed, and must give what stands below it there.

use super::Visit;

pub(super) const FIRST_SCREEN: [Visit; 2] = [
    Visit {
        name: "the_session_of_the_readme",
        lines: SESSION,
        status: 0,
        output: "same\n",
        told: "",
        needs: &["curl", "dpkg-deb", "awk"],
    },
    Visit {
        name: "an_image_of_buildah",
        lines: BUILDAH,
        status: 0,
        output: BUILDAH_SAYS,
        told: "",
        needs: &["buildah"],
    },
];

/// The image of the session is a `docker save` file, written here by Docker's image specification 1.2.
const SESSION: &str = r##"
mkdir -p layer/bin layer/etc; cp $busybox layer/bin/busybox; ln -s busybox layer/bin/id
echo web:x:33:44::/:/bin/sh > layer/etc/passwd; tar -C layer -cf layer.tar .; digest=$(sha256sum layer.tar | cut -c 1-64)
printf '{"architecture":"amd64","os":"linux","config":{"User":"web"},"rootfs":{"type":"layers","diff_ids":["sha256:%s"]}}' \
    $digest > c.json
echo '[{"Config":"c.json","RepoTags":["web:1"],"Layers":["layer.tar"]}]' > manifest.json
tar -cf docker-saved.tar c.json manifest.json layer.tar
ln -s $chitin chitin; port=$((20000 + $$ % 10000))
awk '/^```$/ { fence++; next } fence == 1' $CHITIN_ROOT/README.md > wanted; grep '^\$ ' wanted > typed
while IFS= read -r line <&3; do
    printf '%s\n' "$line"; command=$(printf '%s\n' "${line#??}" | sed "s/8080/$port/g"); sh -c "$command" < /dev/null 2>&1
done 3< typed | tr -d '\r' | grep -v '^chitin: [a-z]*ing the ' > got
diff wanted got && test $(grep -c . typed) -gt 4 && echo same"##;

/// An image of buildah in both of its formats, each with the entry point and the user that its file names.
const BUILDAH: &str = r#"
exec 3>&2 2> tools; cp $busybox busybox
printf '%s\n' 'FROM scratch' 'COPY busybox /bin/busybox' 'COPY busybox /bin/sh' 'ENV A=b' 'WORKDIR /srv/x' 'USER 7:8' \
    'ENTRYPOINT ["/bin/sh", "-c"]' 'CMD ["busybox id; busybox pwd; busybox echo $A"]' > Containerfile
b() { buildah --root $PWD/store --runroot $PWD/state --storage-driver vfs "$@"; }
b bud -q --isolation chroot -t one . > id; b push -q one oci-archive:oci.tar:one; b push -q one docker-archive:saved.tar:two:1
exec 2>&3
for image in oci.tar saved.tar; do $chitin run --image $image 2> said || cat said >&2; done"#;

const BUILDAH_SAYS: &str = "uid=7 gid=8 groups=8\n/srv/x\nb\nuid=7 gid=8 groups=8\n/srv/x\nb\n";
